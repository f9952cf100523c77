/**
 * The members of an operation → JSON text. In charge of what is data and what is language: an
 * object of data that looks like a modifier is marked as data. Names and operators that the
 * language does not have are written as they are; the service refuses them.
 */
import { meaningOf, type Meaning } from './reference.ts'
import { operators, type OperandKind, type OperatorName } from './words.ts'
import {
  fault,
  writeData,
  writeList,
  writeLiteral,
  writeMembers,
  type Piece,
  type Writer
} from './write-json.ts'

/** An operation as an object; its members beside `id` in the order given. */
export function writeOperation (writer: Writer, members: object): void {
  writeMembers(writer, members, (name, value) => (writers[name] ?? writeLiteral)(writer, value))
}

const writers: Readonly<Record<string, ((writer: Writer, value: unknown) => void)>> = Object.assign(
  Object.create(null),
  {
    values: writeData,
    set: writeSet,
    where: writeFilter,
    index_where: writeFilter,
    on_conflict: (writer: Writer, value: unknown) =>
      isObject(value) ? writeOperation(writer, value) : writeLiteral(writer, value)
  }
)

/** New values by column. A column that is `undefined` stays as it is. */
function writeSet (writer: Writer, set: unknown): void {
  if (!isObject(set)) return writeLiteral(writer, set)
  const present = Object.fromEntries(Object.entries(set).filter(([, value]) => value !== undefined))
  writeMembers(writer, present, (_, value) => writeOperand(writer, value, 'json'))
}

/** A filter, with `and`, `or` and `not`. */
function writeFilter (writer: Writer, filter: unknown): void {
  if (!isObject(filter)) return writeLiteral(writer, filter)
  writeMembers(writer, filter, (name, value) => {
    if (name === 'not') writeFilter(writer, value)
    else if ((name === 'and' || name === 'or') && Array.isArray(value)) {
      writeList(writer, value, inner => writeFilter(writer, inner))
    } else writeTests(writer, value)
  })
}

/** The operators of one column. */
function writeTests (writer: Writer, tests: unknown): void {
  if (!isObject(tests)) return writeLiteral(writer, tests)
  writeMembers(writer, tests, (name, operand) => {
    if (name === 'not') writeTests(writer, operand)
    else {
      writeOperand(
        writer,
        operand,
        Object.hasOwn(operators, name) ? operators[name as OperatorName] : 'json'
      )
    }
  })
}

/** An operand of an operator, or (as `json`) a new value. */
function writeOperand (writer: Writer, operand: unknown, kind: OperandKind): void {
  const meaning = meaningOf(operand)
  if (meaning?.kind === 'modifier') return writeModifier(writer, meaning)
  if (kind === 'keyword') return writeLiteral(writer, operand)
  if (kind === 'bounds' && Array.isArray(operand)) {
    return writeList(writer, operand, bound => writeOperand(writer, bound, 'comparand'))
  }
  if (kind === 'search' && isObject(operand)) {
    return writeMembers(
      writer,
      operand,
      (name, value) =>
        name === 'query' ? writeOperand(writer, value, 'key') : writeLiteral(writer, value)
    )
  }
  const start = writer.pieces.length
  const onlyKey = writeData(writer, operand)
  const compared = kind === 'comparand' || kind === 'distinct'
  if (compared ? !isCompound(writer.pieces[start]) : onlyKey?.startsWith('$') !== true) return
  writer.pieces.splice(start, 0, '{"$value":')
  writer.pieces.push('}')
}

function writeModifier (
  writer: Writer,
  { word, operand }: Extract<Meaning, { kind: 'modifier' }>
): void {
  writer.pieces.push(`{"${word}":`)
  writer.path.push(word)
  if ((word === '$inc' || word === '$mul') && typeof operand === 'string') {
    writer.pieces.push(checkDigits(writer, operand))
  } else if (word === '$col' || word === '$excluded') writeLiteral(writer, operand)
  else writeData(writer, operand)
  writer.path.pop()
  writer.pieces.push('}')
}

const number = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

function checkDigits (writer: Writer, text: string): string {
  if (!number.test(text)) throw fault(writer, `takes a number, and ${JSON.stringify(text)} is none`)
  return text
}

/** Whether what was written begins an object or an array. */
function isCompound (piece: Piece | undefined): boolean {
  return typeof piece === 'string' && /^[{[]/.test(piece)
}

/** Whether `value` is an object of members, as opposed to a list and to what stands for a value. */
function isObject (value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) &&
    meaningOf(value) === undefined
}
