/** Runs the short form of the scenario: one round of each load. */
import { overload } from './overload.ts'
import { testShortForm } from './short-form.ts'

testShortForm(overload)
