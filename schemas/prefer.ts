/**
 * The preferences of the `Prefer` header (RFC 7240), with their values, defaults and meanings. The
 * header parser, the options of a batch and the table in docs/reference/preferences.md all come
 * from this object.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { oneOf } from './one-of.ts'

/** The schema of a preference. The first of its values is the default. */
export interface PreferenceItem {
  readonly anyOf: ReadonlyArray<{ readonly const: string }>
  readonly description: string
}

/** The value of a preference without `=`; an empty value means the same (RFC 7240 §2). */
export const enabled = ''
const byName = ['off', enabled] as const

export const Preferences = Type.Object({
  tx: oneOf(['commit', 'rollback'], {
    default: 'commit',
    description:
      '`rollback` is a dry run: the batch runs, including deferred constraints, and returns its ' +
      'results, then is rolled back; only sequences keep their new values'
  }),
  isolation: oneOf(['read-committed', 'repeatable-read', 'serializable'], {
    default: 'read-committed',
    description: 'isolation level of the transaction; after a serialization failure the batch is ' +
      'retried, then refused with 409 `serialization_failure`'
  }),
  access: oneOf(['read-write', 'read-only'], {
    default: 'read-write',
    description: 'with `read-only`, operations that write or lock rows are refused with 403 ' +
      '`read_only_sql_transaction`; a standby serves only such batches'
  }),
  return: oneOf(['representation', 'minimal'], {
    default: 'representation',
    description:
      '`minimal` returns the number of rows of each operation instead of the rows: ' +
      '`{"order": 1}`'
  }),
  explain: oneOf(byName, {
    default: 'off',
    description:
      "returns PostgreSQL's query plan of each operation instead of its rows, and runs nothing; " +
      'without `EXPLAIN=on` the batch is refused with 400 `prefer_invalid`'
  }),
  timing: oneOf(byName, {
    default: 'off',
    description: 'adds the header `Server-Timing`, in milliseconds: request, plan, wait for a ' +
      'connection, session, operations (the 20 slowest), commit'
  }),
  handling: oneOf(['lenient', 'strict'], {
    default: 'lenient',
    description:
      'with `strict`, an unknown preference or a malformed header is refused with 400 ' +
      '`prefer_invalid`; otherwise it is ignored. An unknown value of a known preference is ' +
      'always refused'
  })
})
export type Preferences = Readonly<Static<typeof Preferences>>
type PreferenceName = keyof Preferences

/** Every preference with its schema, in the order of the documentation. */
export const preferenceItems: ReadonlyMap<string, PreferenceItem> = new Map(
  Object.entries(Preferences.properties) as unknown as ReadonlyArray<
    [PreferenceName, PreferenceItem]
  >
)

/** Formats a preference for a header: `tx=rollback`, `explain`. */
export function renderPreference (name: string, value: string): string {
  return value === enabled ? name : `${name}=${value}`
}

export function describeValue (value: string): string {
  return value === enabled ? 'name without a value' : `\`${value}\``
}

export const defaultPreferences: Preferences = Value.Create(Preferences)
