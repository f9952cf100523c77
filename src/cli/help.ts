/**
 * Renders `--help` from commands.ts.
 */
import {
  commands,
  describeOption,
  globalOptions,
  writeOption,
  type CommandName,
  type OptionItem
} from './commands.ts'

/** Help for one command, or for the program. */
export function renderHelp (command: CommandName | undefined): string {
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
