/**
 * The entry. To load the service takes most of a second, in which a signal would end the process as
 * a failure or, where this is the first process of a container, do nothing.
 */

/** Nothing was started that had to be stopped. */
const leave = (): void => process.exit(0)
process.on('SIGTERM', leave).on('SIGINT', leave)

const { run } = await import('./process.ts')
// Hears signals by itself as soon as it has begun.
const running = run()
process.off('SIGTERM', leave).off('SIGINT', leave)
await running
