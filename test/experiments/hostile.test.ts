/** Runs the short form of the scenario: a few hundred requests. */
import { hostile } from './hostile.ts'
import { testShortForm } from './short-form.ts'

testShortForm(hostile)
