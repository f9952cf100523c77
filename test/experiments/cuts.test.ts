/** Runs the short form of the scenario: every network fault at least once, then the full audit. */
import { cuts } from './cuts.ts'
import { testShortForm } from './short-form.ts'

testShortForm(cuts)
