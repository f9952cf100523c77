/** Runs the short form of the scenario: one restart of each kind. */
import { restart } from './restart.ts'
import { testShortForm } from './short-form.ts'

testShortForm(restart)
