/**
 * Settings of a service for the form in which it runs statements:
 * - `chosen`: as it chooses
 * - `general`: the general form only
 *
 * TEST_FORMS sets the form of all services that do not name one.
 */
import type { BatchSettings } from '../../src/transaction/run-batch.ts'

export const FORMS = ['chosen', 'general'] as const
export type FormName = typeof FORMS[number]

/** Returns the settings. */
export function formSettings (
  form: FormName = process.env['TEST_FORMS'] as FormName ?? 'chosen'
): Partial<BatchSettings> {
  return form === 'general' ? { plainForm: false } : {}
}
