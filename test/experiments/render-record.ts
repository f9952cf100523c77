/**
 * Returns the JSON text of a record, for a file that is read in diffs: each element of a list
 * begins a line, and the members of an object fill lines of 100 columns.
 */
export function renderRecord (record: unknown): string {
  return `${render(record, '')}\n`
}

function render (value: unknown, indent: string): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const inner = `${indent}  `
  const isList = Array.isArray(value)
  const members = Object.entries(value).map(([key, member]) =>
    `${isList ? '' : `${JSON.stringify(key)}: `}${render(member, inner)}`
  )
  const [open, close] = isList ? '[]' : '{}'
  const line = `${open}${members.join(', ')}${close}`
  if (!line.includes('\n') && indent.length + line.length < 80) return line
  const text = members.reduce((text, member) => {
    const last = text.slice(text.lastIndexOf('\n') + 1)
    const fits = !isList && last.length + (member.split('\n')[0] as string).length < 97
    return `${text},${fits ? ' ' : `\n${inner}`}${member}`
  })
  return `${open}\n${inner}${text}\n${indent}${close}`
}
