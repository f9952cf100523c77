/** Runs the short form of the scenario: a few requests, briefly. */
import { fairness } from './fairness.ts'
import { testShortForm } from './short-form.ts'

testShortForm(fairness)
