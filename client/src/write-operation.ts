/**
 * Writes the members of an operation as JSON text. An object of data that looks like a modifier is
 * marked as data. Unknown names and operators are written unchanged, and the service rejects them.
 */
import { meaningOf, type Meaning } from './reference.ts'
import { operators, type OperandKind, type OperatorName } from './words.ts'
import {
  invalidAt,
  writeData,
  writeList,
  writeLiteral,
  writeMembers,
  type Piece,
  type Writer
} from './write-json.ts'

/** Writes an operation as an object, with the members in the given order. */
export function writeOperation (writer: Writer, members: object): void {
  const keyed = 'key' in members
  writeMembers(writer, members, (name, value) => {
    const write = keyed && name === 'values' ? writeKeyedRows : writers[name] ?? writeLiteral
    write(writer, value)
  })
}

function writeKeyedRows (writer: Writer, rows: unknown): void {
  if (!Array.isArray(rows)) return writeLiteral(writer, rows)
  writeList(writer, rows, row => writeSet(writer, row))
}

const writers: Readonly<Record<string, ((writer: Writer, value: unknown) => void)>> = Object.assign(
  Object.create(null),
  {
    values: writeData,
    args: writeData,
    set: writeSet,
    columns: writeSet,
    from: writeRead,
    where: writeFilter,
    having: writeFilter,
    after: writeData,
    index_where: writeFilter,
    with: writeReads,
    when: writeWhen,
    on_conflict: writeRead
  }
)

/** Writes pairs of an operation and a number of rows as an object. */
function writeWhen (writer: Writer, when: unknown): void {
  if (!Array.isArray(when) || !when.every(Array.isArray)) {
    throw invalidAt(writer, 'must be a list of operations with numbers of rows: [[found, 0]]')
  }
  const seen = new Set<unknown>()
  let separator = '{'
  for (const [i, [operation, rows]] of (when as ReadonlyArray<readonly unknown[]>).entries()) {
    writer.path.push(i)
    const meaning = meaningOf(operation)
    if (meaning?.kind !== 'operation') throw invalidAt(writer, 'must begin with an operation')
    if (seen.has(operation)) throw invalidAt(writer, 'names an operation twice')
    seen.add(operation)
    writer.checkReference(meaning.source)
    writer.pieces.push(separator, { idOf: meaning.source }, ':')
    writeLiteral(writer, rows)
    writer.path.pop()
    separator = ','
  }
  writer.pieces.push(separator === '{' ? '{}' : '}')
}

/** Writes new values by column, or a list of columns. A column that is `undefined` is omitted. */
function writeSet (writer: Writer, set: unknown): void {
  if (!isObject(set)) return writeLiteral(writer, set)
  const present = Object.fromEntries(Object.entries(set).filter(([, value]) => value !== undefined))
  writeMembers(writer, present, (_, value) => writeOperand(writer, value, 'json'))
}

function writeFilter (writer: Writer, filter: unknown): void {
  if (!isObject(filter)) return writeLiteral(writer, filter)
  writeMembers(writer, filter, (name, value) => {
    if (name === 'not') writeFilter(writer, value)
    else if (name === 'exists' || name === 'not_exists') writeRead(writer, value)
    else if ((name === 'and' || name === 'or') && Array.isArray(value)) {
      writeList(writer, value, inner => writeFilter(writer, inner))
    } else writeTests(writer, value)
  })
}

/** Writes a read of another table, or `on_conflict`. */
function writeRead (writer: Writer, read: unknown): void {
  if (isObject(read)) writeOperation(writer, read)
  else writeLiteral(writer, read)
}

function writeReads (writer: Writer, reads: unknown): void {
  if (!isObject(reads)) return writeLiteral(writer, reads)
  writeMembers(writer, reads, (_, read) => writeRead(writer, read))
}

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

/** Writes an operand of an operator, or a new value (as `json`). */
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
  if (meaning !== undefined) return
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
  if (takesNumber.has(word) && typeof operand === 'string') {
    writer.pieces.push(checkDigits(writer, operand))
  } else if (namesColumn.has(word)) writeLiteral(writer, operand)
  else if (isSourceColumn(operand)) writeOperand(writer, operand, 'json')
  else writeData(writer, operand)
  writer.path.pop()
  writer.pieces.push('}')
}

const takesNumber: ReadonlySet<string> = new Set(['$inc', '$dec', '$mul'])
const namesColumn: ReadonlySet<string> = new Set(['$col', '$excluded', '$from'])

/** Whether the operand of a modifier is itself one: `$.inc($.from('qty'))`. */
function isSourceColumn (operand: unknown): boolean {
  const meaning = meaningOf(operand)
  return meaning?.kind === 'modifier' && meaning.word === '$from'
}

const number = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

function checkDigits (writer: Writer, text: string): string {
  if (!number.test(text)) throw invalidAt(writer, `must be a number, not ${JSON.stringify(text)}`)
  return text
}

/** Whether the written piece begins an object or an array. */
function isCompound (piece: Piece | undefined): boolean {
  return typeof piece === 'string' && /^[{[]/.test(piece)
}

/** Whether `value` is a plain object, and not an array, reference or modifier. */
function isObject (value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) &&
    meaningOf(value) === undefined
}
