/**
 * The commands that are a client's: one is found, run, and comes to an exit code. The service
 * itself (`start`, `migrate`) is started by the entry, src/cli.ts.
 */
import { readArguments, UsageError } from './arguments.ts'
import { check } from './check.ts'
import type { RunOptions } from './commands.ts'
import { renderHelp } from './help.ts'
import { run } from './run.ts'
import { visible } from './text.ts'
import type { CliContext } from './context.ts'

/**
 * Runs the command that `argv` (without the program) names; `version` is that of the package.
 * Resolves with the exit code; 2 where the command line is at fault.
 */
export async function runCommand (
  argv: readonly string[],
  version: string,
  world: CliContext
): Promise<number> {
  const { stdout, stderr } = world
  // Who reads may stop reading (`| head`): what became of the batch is told by the exit code all
  // the same.
  stdout.on('error', () => {})
  try {
    const { command, options, operands } = readArguments(argv)
    if (options['help'] === true) return say(renderHelp(command))
    switch (command) {
      case undefined:
        if (operands.length > 0 || options['version'] !== true) {
          throw new UsageError('expected a command')
        }
        return say(`${version}\n`)
      case 'run':
        return await run(options as RunOptions, oneFile(operands), world)
      case 'check':
        if (operands.length === 0) throw new UsageError('expected a file, or - for standard input')
        return await check(operands, world)
      default:
        throw new UsageError(`${command} takes no operand`)
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    stderr.write(`oneflight: ${visible(error.message)}; see oneflight --help\n`)
    return 2
  }

  function say (text: string): number {
    stdout.write(text)
    return 0
  }
}

function oneFile (operands: readonly string[]): string {
  const [file, ...more] = operands
  if (file === undefined || more.length > 0) {
    throw new UsageError('expected one file, or - for standard input')
  }
  return file
}
