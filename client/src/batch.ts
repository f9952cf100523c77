/**
 * The function of a batch → its text. In charge of ids: what the function returns names the
 * operations; the others get a name that is free.
 */
import type { AnyDatabase } from './database.ts'
import type { Batch } from './operation.ts'
import { invalid, meaningOf, opaque, referRow, referRows, type Source } from './reference.ts'
import type { Numbers } from './values.ts'
import { operationId } from './words.ts'
import type { Piece } from './write-json.ts'
import { writeOperation } from './write-operation.ts'

/** One operation of a batch that is being made. */
interface OperationNode extends Source {
  readonly op: 'insert' | 'update' | 'delete' | 'select'
  readonly pieces: readonly Piece[]
}

/** A batch as it is sent. */
export interface WrittenBatch {
  readonly body: string
  /** Whether nothing in it changes anything. */
  readonly selects: boolean
  /** Answers by id → what the caller gets, in the shape of what the function returned. */
  readonly arrange: (answers: Readonly<Record<string, unknown>>) => unknown
}

/** Runs the function of a batch. Throws `batch_invalid`, and what the function throws. */
export function writeBatch (
  build: (batch: Batch<AnyDatabase, string, Numbers>) => unknown
): WrittenBatch {
  const nodes: OperationNode[] = []
  const shape = build(createBuilder(nodes) as Batch<AnyDatabase, string, Numbers>)
  if (nodes.length === 0) throw invalid('The batch has no operation.')
  const arrange = readShape(shape, nodes)
  const taken = new Set(nodes.map(({ id }) => id))
  for (const [i, node] of nodes.entries()) node.id ??= freeId(i, taken)
  return {
    body: `[${nodes.map(({ id, pieces }) => `{"id":"${id}",${join(pieces).slice(1)}`).join(',')}]`,
    selects: nodes.every(({ op }) => op === 'select'),
    arrange
  }
}

/** What the function of a batch is given: operations are written when they are called. */
function createBuilder (nodes: OperationNode[]): object {
  const checkReference = (to: Source): void => {
    if (!(nodes as readonly Source[]).includes(to)) {
      throw invalid('A reference leads to an operation of another batch.')
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

/** Gives operations the ids that the function returned them under. */
function readShape (shape: unknown, nodes: readonly OperationNode[]): WrittenBatch['arrange'] {
  const nodeOf = (value: unknown): OperationNode => {
    const meaning = meaningOf(value)
    const node = nodes.find(node => meaning?.kind === 'operation' && node === meaning.source)
    if (node === undefined) {
      throw invalid(
        'The function of a batch returns operations of that batch: one, an array or an ' +
          'object of them, or nothing.'
      )
    }
    return node
  }
  if (shape === undefined) return () => undefined
  if (Array.isArray(shape)) {
    const list = shape.map(nodeOf)
    return answers => list.map(({ id }) => answers[id as string])
  }
  if (
    meaningOf(shape) !== undefined || Object.prototype.toString.call(shape) !== '[object Object]'
  ) {
    const one = nodeOf(shape)
    return answers => answers[one.id as string]
  }
  const named = Object.entries(shape as object).map(([name, value]) =>
    [name, nodeOf(value)] as const
  )
  for (const [name, node] of named) {
    if (!operationId.test(name)) {
      throw invalid(
        `An operation cannot be called "${name}": letters, digits and _, no digit first.`
      )
    }
    node.id ??= name
  }
  return answers => Object.fromEntries(named.map(([name, { id }]) => [name, answers[id as string]]))
}

/** `op0`, `op1`, …: the position of the operation. */
function freeId (index: number, taken: Set<string | undefined>): string {
  let id = `op${index}`
  while (taken.has(id)) id = `${id}_`
  taken.add(id)
  return id
}

/** Pieces → text; every operation has its id by now. */
function join (pieces: readonly Piece[]): string {
  return pieces.map(piece =>
    typeof piece === 'string' ? piece : JSON.stringify(`$${piece.to.id as string}${piece.tail}`)
  ).join('')
}
