/**
 * Runs the commands of the command line, `--help` and `--version`, without `start` and `migrate`,
 * which src/cli.ts runs.
 */
import { readArguments, UsageError } from './arguments.ts'
import { check } from './check.ts'
import {
  type CheckOptions,
  type RunOptions,
  type TokenOptions,
  type TypesOptions,
  commands,
  describeOption,
  globalOptions,
  writeOption,
  type CommandName,
  type OptionItem
} from './commands.ts'
import { run } from './run.ts'
import { printSchema } from './schema.ts'
import { visible, type CliContext } from './terminal.ts'
import { printToken } from './token.ts'
import { printTypes } from './types.ts'

/**
 * Runs the command in `argv`, which excludes the program. Resolves with the exit code; 2 means an
 * invalid command line.
 */
export async function runCommand (
  argv: readonly string[],
  version: string,
  context: CliContext
): Promise<number> {
  const { stdout, stderr } = context
  // The reader may close the pipe (`| head`). The exit code still reports the outcome.
  stdout.on('error', () => {})
  try {
    const { command, options, operands } = readArguments(argv)
    if (options['help'] === true) return print(renderHelp(command))
    switch (command) {
      case undefined:
        if (operands.length > 0 || options['version'] !== true) {
          throw new UsageError('expected a command')
        }
        return print(`${version}\n`)
      case 'run':
        return await run(options as RunOptions, oneFile(operands), context)
      case 'check':
        if (operands.length === 0 && options['batches'] === undefined) {
          throw new UsageError('expected a file, or - for standard input')
        }
        return await check(options as CheckOptions, operands, context)
      case 'schema':
        if (operands.length > 0) throw new UsageError('schema takes no arguments')
        return printSchema(context)
      case 'token':
        if (operands.length > 0) throw new UsageError('token takes only options')
        return printToken(options as TokenOptions, context)
      case 'types':
        if (operands.length > 1 || (operands.length === 0 && options['database'] !== true)) {
          throw new UsageError('expected one folder, or --database')
        }
        return await printTypes(options as TypesOptions, operands[0], context)
      default:
        throw new UsageError(`${command} takes no arguments`)
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    stderr.write(`oneflight: ${visible(error.message)}; see oneflight --help\n`)
    return 2
  }

  function print (text: string): number {
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

function renderHelp (command: CommandName | undefined): string {
  if (command === undefined) {
    return [
      'Usage: oneflight [command] [options]',
      'Run a JSON array of database operations on PostgreSQL as one transaction.',
      `Commands:\n${
        renderList(Object.entries(commands).map(([name, { summary }]) => [name, summary]))
      }`,
      renderOptions(globalOptions)
    ].join('\n\n') + '\n'
  }
  const { summary, operands, options, notes } = commands[command]
  const usage = `Usage: oneflight ${command} [options] ${operands}`.trimEnd()
  return [
    usage,
    `${summary}.`,
    ...notes,
    renderOptions(options)
  ].join('\n\n') + '\n'
}

function renderOptions (items: Readonly<Record<string, OptionItem>>): string {
  return `Options:\n${
    renderList(
      Object.entries(items).map(([name, item]) => [writeOption(name, item), describeOption(item)])
    )
  }`
}

function renderList (rows: ReadonlyArray<readonly [string, string]>): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
