/**
 * Preloaded by the service of the scenario `hostile`, with --expose-gc: collects all garbage at
 * SIGWINCH, which otherwise does nothing to a service. What remains is what the service keeps.
 */
const { gc } = globalThis as { readonly gc?: (options: object) => void }
process.on('SIGWINCH', () => gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }))
