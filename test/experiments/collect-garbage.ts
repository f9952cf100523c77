/**
 * Preloaded by the service of the scenario `hostile`: collects all garbage at SIGWINCH, which
 * otherwise does nothing to a service. What remains is what the service keeps.
 */
import { collectGarbage } from '../support/garbage.ts'

process.on('SIGWINCH', () =>
  collectGarbage({ type: 'major', execution: 'sync', flavor: 'last-resort' }))
