/**
 * Runs the batch function and writes its operations as JSON. The names in the function's return
 * value become the ids of the operations. Operations without a name get a free id.
 */
import type { AnyDatabase } from './database.ts'
import type { Batch } from './operation.ts'
import { invalid, meaningOf, opaque, referRow, referRows, type Source } from './reference.ts'
import type { Numbers } from './values.ts'
import { operationId } from './words.ts'
import type { Piece } from './write-json.ts'
import { writeOperation } from './write-operation.ts'

/** One operation of a batch that is being built. */
interface OperationNode extends Source {
  readonly op: 'insert' | 'update' | 'delete' | 'select'
  readonly pieces: readonly Piece[]
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
  const arrange = readShape(shape, nodes)
  const taken = new Set(nodes.map(({ id }) => id))
  for (const [i, node] of nodes.entries()) node.id ??= freeId(i, taken)
  return {
    body: `[${nodes.map(({ id, pieces }) => `{"id":"${id}",${join(pieces).slice(1)}`).join(',')}]`,
    onlySelects: nodes.every(({ op }) => op === 'select'),
    arrange
  }
}

/** Creates the builder that the batch function receives. Each call writes its operation at once. */
function createBuilder (nodes: OperationNode[]): object {
  const checkReference = (to: Source): void => {
    if (!(nodes as readonly Source[]).includes(to)) {
      throw invalid('A reference points to an operation of another batch.')
    }
  }
  const add = (op: OperationNode['op'], table: string, members: object): object => {
    const pieces: Piece[] = []
    writeOperation({ pieces, path: [], title: `${op} ${table}`, checkReference }, {
      op,
      table,
      ...members
    })
    const node: OperationNode = { op, pieces, id: undefined }
    nodes.push(node)
    return Object.assign(opaque({ kind: 'operation', source: node }), {
      row: (index = 0) => referRow(node, index),
      rows: referRows(node)
    })
  }
  return {
    insert: (table: string, values: unknown, options?: object) =>
      add('insert', table, { values: Array.isArray(values) ? values : [values], ...options }),
    update: (table: string, options: object) => add('update', table, options),
    delete: (table: string, options: object) => add('delete', table, options),
    select: (table: string, options?: object) => add('select', table, { ...options })
  }
}

/** Names the operations as the return value of the function does, and returns `arrange`. */
function readShape (shape: unknown, nodes: readonly OperationNode[]): WrittenBatch['arrange'] {
  const nodeOf = (value: unknown): OperationNode => {
    const meaning = meaningOf(value)
    const node = nodes.find(node => meaning?.kind === 'operation' && node === meaning.source)
    if (node === undefined) {
      throw invalid(
        'The batch function must return operations of this batch (one, an array or an object ' +
          'of them) or nothing.'
      )
    }
    return node
  }
  if (shape === undefined) return () => undefined
  if (Array.isArray(shape)) {
    const list = shape.map(nodeOf)
    return results => list.map(({ id }) => results[id as string])
  }
  if (
    meaningOf(shape) !== undefined || Object.prototype.toString.call(shape) !== '[object Object]'
  ) {
    const operation = nodeOf(shape)
    return results => results[operation.id as string]
  }
  const named = Object.entries(shape as object).map(([name, value]) =>
    [name, nodeOf(value)] as const
  )
  for (const [name, node] of named) {
    if (!operationId.test(name)) {
      throw invalid(
        `Invalid operation name "${name}": use letters, digits and _, and begin with no digit.`
      )
    }
    node.id ??= name
  }
  return results => Object.fromEntries(named.map(([name, { id }]) => [name, results[id as string]]))
}

/** Returns `op0`, `op1`, … by the position of the operation, with `_` appended while taken. */
function freeId (index: number, taken: Set<string | undefined>): string {
  let id = `op${index}`
  while (taken.has(id)) id = `${id}_`
  taken.add(id)
  return id
}

/** Joins pieces to text. Every operation must have its id. */
function join (pieces: readonly Piece[]): string {
  return pieces.map(piece =>
    typeof piece === 'string' ? piece : JSON.stringify(`$${piece.to.id as string}${piece.tail}`)
  ).join('')
}
