/**
 * TypeScript as text: objects, unions and names.
 */
import type { Json } from '../json/parse.ts'

export interface Member {
  readonly name: string
  readonly description?: Json | undefined
  readonly optional?: boolean
  readonly type: string
}

export const UNKNOWN = 'unknown'

/** An object type with a line for each member; `others`: lines after them. */
export function writeObject (
  members: readonly Member[],
  others: readonly string[] = []
): string {
  const lines = members.flatMap(({ name, description, optional, type }) => [
    ...typeof description === 'string' ? [writeComment(description)] : [],
    `${writeKey(name)}${optional === true ? '?' : ''}: ${type}`
  ])
  return `{\n${[...lines, ...others].map(line => `${indent(line)}\n`).join('')}}`
}

function indent (text: string): string {
  return text.split('\n').map(line => `  ${line}`).join('\n')
}

function writeComment (text: string): string {
  return `/** ${text.replaceAll(/\s+/g, ' ').replaceAll('*/', '*\\/').trim()} */`
}

function writeKey (name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name)
}

export function union (types: readonly string[] = [UNKNOWN]): string {
  return types.includes(UNKNOWN) ? UNKNOWN : [...new Set(types)].join(' | ')
}
