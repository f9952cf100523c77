/**
 * The entry point of the service. Loading the modules takes most of a second. A signal during that
 * time would end the process with a failure or, as the first process of a container, be ignored.
 */

/** Nothing was started yet that has to be stopped. */
const leave = (signal: NodeJS.Signals): void => {
  process.stderr.write(`oneflight: ${signal} before the start\n`)
  process.exit(0)
}
/** SIGHUP asks to read BATCHES_DIR again. The start reads it anyway. */
const hangUp = (): void => {}
process.on('SIGTERM', leave).on('SIGINT', leave).on('SIGHUP', hangUp)

const { run } = await import('./process.ts')
// Handles signals from here on.
const running = run()
process.off('SIGTERM', leave).off('SIGINT', leave).off('SIGHUP', hangUp)
await running
