/**
 * Runs the batch function and writes its operations as JSON. The id of an operation is its name:
 * the one given with `as`, or its path in the function's return value (`totals_left`). Operations
 * without a name have their position as id (`op3`). If an id is taken, a number is appended.
 */
import type { AnyDatabase } from './database.ts'
import type { Batch } from './operation.ts'
import { invalid, meaningOf, opaque, referRow, referRows, type Source } from './reference.ts'
import type { Numbers } from './values.ts'
import { operationId } from './words.ts'
import { writeLiteral, type Piece, type Writer } from './write-json.ts'
import { writeOperation } from './write-operation.ts'

interface OperationNode extends Source {
  readonly op: 'insert' | 'update' | 'delete' | 'select' | 'call'
  readonly pieces: readonly Piece[]
  name: string | undefined
}

/** A batch as it is sent, and how to read its results. */
export interface WrittenBatch {
  readonly body: string
  /** Whether the batch contains only selects. */
  readonly onlySelects: boolean
  /** Arranges the results (by operation id) in the shape of the function's return value. */
  readonly arrange: (results: Readonly<Record<string, unknown>>) => unknown
}

/** Runs the batch function. Throws `batch_invalid`, and passes on errors of the function. */
export function writeBatch (
  build: (batch: Batch<AnyDatabase, string, Numbers>) => unknown
): WrittenBatch {
  const nodes: OperationNode[] = []
  const shape = build(createBuilder(nodes) as Batch<AnyDatabase, string, Numbers>)
  if (nodes.length === 0) throw invalid('The batch has no operations.')
  const arrange = shape === undefined ? () => undefined : readShape(shape, nodes, [])
  const ids = assignIds(nodes)
  const operations = nodes.map(({ id, pieces }) => `{"id":"${id}",${join(pieces, ids).slice(1)}`)
  return {
    body: `[${operations.join(',')}]`,
    onlySelects: nodes.every(({ op }) => op === 'select'),
    arrange
  }
}

/** Writes the parameters of a named batch, which contain no references. Throws `batch_invalid`. */
export function writeParameters (name: string, params: unknown): string {
  const writer = createWriter(`batch "${name}"`, [])
  writeLiteral(writer, params)
  return writer.pieces.join('')
}

/** `nodes`: the operations that references may point to. */
function createWriter (title: string, nodes: readonly Source[]): Writer {
  return {
    pieces: [],
    path: [],
    title,
    checkReference (to) {
      if (!nodes.includes(to)) {
        throw invalid('A reference points to an operation of another batch.')
      }
    }
  }
}

/** Creates the builder that the batch function receives. Each call writes its operation at once. */
function createBuilder (nodes: OperationNode[]): object {
  const add = (op: OperationNode['op'], name: string, members: object): object => {
    const writer = createWriter(`${op} ${name}`, nodes)
    writeOperation(writer, {
      op,
      [op === 'call' ? 'function' : 'table']: name,
      ...members
    })
    const node: OperationNode = { op, pieces: writer.pieces, id: undefined, name: undefined }
    nodes.push(node)
    const operation = Object.assign(opaque({ kind: 'operation', source: node }), {
      row: (index = 0) => referRow(node, index),
      rows: referRows(node),
      as: (name: string) => {
        node.name = checkName(name)
        return operation
      }
    })
    return operation
  }
  return {
    insert: (table: string, values: unknown, options?: object) =>
      add('insert', table, { values: Array.isArray(values) ? values : [values], ...options }),
    insertFrom: (table: string, options: object) => add('insert', table, options),
    update: (table: string, options: object) => add('update', table, options),
    delete: (table: string, options: object) => add('delete', table, options),
    select: (table: string, options?: object) => add('select', table, { ...options }),
    call: (name: string, args?: object, options?: object) =>
      add('call', name, { ...args !== undefined && { args }, ...options })
  }
}

/**
 * Names the operations by their paths in the return value, and returns `arrange`. A path that
 * begins with a position in an array is no name.
 */
function readShape (
  shape: unknown,
  nodes: readonly OperationNode[],
  path: ReadonlyArray<string | number>
): WrittenBatch['arrange'] {
  const meaning = meaningOf(shape)
  if (meaning === undefined && Array.isArray(shape)) {
    const parts = shape.map((part, i) => readShape(part, nodes, [...path, i]))
    return results => parts.map(part => part(results))
  }
  if (meaning === undefined && Object.prototype.toString.call(shape) === '[object Object]') {
    const parts = Object.entries(shape as object).map(([name, part]) =>
      [name, readShape(part, nodes, [...path, name])] as const
    )
    return results => Object.fromEntries(parts.map(([name, part]) => [name, part(results)]))
  }
  const node = nodes.find(node => meaning?.kind === 'operation' && node === meaning.source)
  if (node === undefined) {
    throw invalid(
      'The batch function must return operations of this batch (one, or arrays and objects of ' +
        'them) or nothing.'
    )
  }
  if (typeof path[0] === 'string') node.name ??= checkName(path.join('_'))
  return results => results[node.id as string]
}

function checkName (name: string): string {
  if (operationId.test(name)) return name
  throw invalid(
    `Invalid operation name "${name}": use letters, digits and _, and begin with no digit.`
  )
}

/**
 * Sets the ids and returns them. Names come first, in the order of the operations: `pay`, `pay_2`,
 * `pay_3`.
 */
function assignIds (nodes: readonly OperationNode[]): ReadonlySet<string> {
  const taken = new Set<string>()
  const take = (name: string): string => {
    let id = name
    for (let i = 2; taken.has(id); i++) id = `${name}_${i}`
    taken.add(id)
    return id
  }
  for (const node of nodes) if (node.name !== undefined) node.id = take(node.name)
  for (const [i, node] of nodes.entries()) node.id ??= take(`op${i}`)
  return taken
}

/** Joins pieces to text. Every operation must have its id. */
function join (pieces: readonly Piece[], ids: ReadonlySet<string>): string {
  return pieces.map(piece => {
    if (typeof piece === 'string') return piece
    if ('ifId' in piece) return JSON.stringify(`${ids.has(piece.ifId) ? '$' : ''}${piece.text}`)
    return 'idOf' in piece
      ? `"${piece.idOf.id as string}"`
      : JSON.stringify(`$${piece.to.id as string}${piece.tail}`)
  }).join('')
}
