/** Runs the short form of the scenario: 400 batches in each load. */
import { conflicts } from './conflicts.ts'
import { testShortForm } from './short-form.ts'

testShortForm(conflicts, ['', '%'])
