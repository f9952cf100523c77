/**
 * Makes V8's function `gc` available, without an option of the command line.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects garbage. Without options, some memory is not returned to the operating system. */
export const collectGarbage = runInNewContext('gc') as (options?: object) => void
