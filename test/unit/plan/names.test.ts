/**
 * Tests which tables and columns an operation names, and the paths at which it names them.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { describePath } from '../../../src/errors/envelope.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import type { Parameter } from '../../../src/plan/parameter.ts'

const limits = { schemas: ['public'], maxRows: 100, maxConditions: 100 }
const parameters = new Map<string, Parameter>([['rows', {
  position: 0,
  isList: true,
  minItems: 0,
  isOptional: false,
  rows: { declared: new Set(['a', 'b']), isClosed: true, columns: ['a', 'b'] }
}]])

/** The names as `table.column at path`; `=` is before a column that is stored. */
function names (operation: object): readonly string[] {
  const target = 'function' in operation ? {} : { table: 't' }
  const batch = [{ id: 'o', ...target, ...operation }] as unknown as Batch
  const { names } = planBatch(batch, limits, { parameters })
  return names.map(({ table: { name }, column, isStored, path }) =>
    `${isStored ? '=' : ''}${name}${column === undefined ? '' : `.${column}`} ${describePath(path)}`
  )
}

const own = 't table'

t.test('a parameter that does not exist', async t => {
  const batch = [{ id: 'o', op: 'select', table: 't', where: { a: { eq: '$params.row' } } }]
  const plan = async () => planBatch(batch as unknown as Batch, limits, { parameters })
  t.match(await plan().catch((error: unknown) => error), {
    details: { errors: [{ message: /names no parameter. Declared parameters: rows\. / }] }
  })
})

t.test('what is read', t => {
  t.strictSame(names({
    op: 'select',
    columns: [
      '*', 'a', { column: 'b->c', as: 'x' }, { fn: 'count' }, { fn: 'max', column: 'd', as: 'm' }
    ],
    group_by: ['a', 'e'],
    having: { m: { gt: 1 }, 'x->y': { eq: 1 }, f: { eq: { $col: 'm' } } },
    order: [{ m: 'asc' }, { 'g->h->>0': 'desc' }]
  }), [
    own, 't.a columns[1]', 't.b columns[2]', 't.d columns[4]', 't.e group_by[1]',
    't.g order[1]["g->h->>0"]', 't.f having.f'
  ])
  t.strictSame(names({
    op: 'select',
    with: {
      u: {
        table: 'u',
        on: { b: 'a' },
        columns: ['c'],
        where: { d: { eq: 1 } },
        order: [{ e: 'asc' }],
        with: { v: { table: 'v', on: { g: 'f' } } }
      }
    }
  }), [
    own, 'u with.u.table', 'u.b with.u.on.b', 't.a with.u.on.b', 'u.c with.u.columns[0]',
    'u.d with.u.where.d', 'u.e with.u.order[0].e', 'v with.u.with.v.table',
    'v.g with.u.with.v.on.g', 'u.f with.u.with.v.on.g'
  ])
  t.end()
})

t.test('conditions', t => {
  t.strictSame(names({
    op: 'select',
    where: {
      a: { eq: { $col: 'b' }, between: [{ $col: 'c' }, 1], in: [1] },
      or: [{ 'd->>e': { eq: 'x' } }, { f: { eq: 1 }, g: { eq: { $col: 'h' } } }],
      not: { i: { eq: 1 } },
      exists: {
        table: 'u',
        on: { k: 'j' },
        where: {
          l: { eq: { $col: 'm' } },
          not_exists: { table: 'v', on: { o: 'n' } },
          or: [{ exists: { table: 'w', on: { q: 'p' } } }]
        }
      },
      and: [{ or: [{ r: { eq: 1 } }] }, { x: { eq: 1 }, exists: { table: 'y', on: { z: 's' } } }]
    }
  }), [
    own, 't.a where.a', 't.b where.a.eq', 't.c where.a.between[0]', 't.d where.or[0]["d->>e"]',
    't.f where.or[1].f', 't.g where.or[1].g', 't.h where.or[1].g.eq', 't.i where.not.i',
    'u where.exists.table', 'u.k where.exists.on.k', 't.j where.exists.on.k',
    'u.l where.exists.where.l', 'u.m where.exists.where.l.eq',
    'v where.exists.where.not_exists.table', 'v.o where.exists.where.not_exists.on.o',
    'u.n where.exists.where.not_exists.on.o', 'w where.exists.where.or[0].exists.table',
    'w.q where.exists.where.or[0].exists.on.q', 'u.p where.exists.where.or[0].exists.on.q',
    't.r where.and[0].or[0].r', 't.x where.and[1].x', 'y where.and[1].exists.table',
    'y.z where.and[1].exists.on.z', 't.s where.and[1].exists.on.z'
  ])
  t.strictSame(names({
    op: 'call',
    function: 'f',
    columns: ['a'],
    where: { a: { eq: { $col: 'b' } }, exists: { table: 'u', on: { k: 'j' } } },
    order: [{ c: 'asc' }]
  }), ['u where.exists.table', 'u.k where.exists.on.k'])
  t.end()
})

t.test('what is changed', t => {
  t.strictSame(names({
    op: 'insert',
    values: [{ a: 1 }, { a: 1, b: 2 }],
    on_conflict: {
      columns: ['a'],
      index_where: { c: { eq: 1 } },
      do: 'update',
      set: { d: { $excluded: 'e' }, f: { $col: 'g' }, h: 1, i: { $inc: 1 } },
      where: { j: { eq: { $excluded: 'k' } } }
    },
    returning: ['l']
  }), [
    own, '=t.a on_conflict.columns[0]', '=t.d on_conflict.set.d', '=t.f on_conflict.set.f',
    '=t.h on_conflict.set.h', '=t.i on_conflict.set.i', 't.e on_conflict.set.d.$excluded',
    't.g on_conflict.set.f.$col', 't.j on_conflict.where.j', 't.k on_conflict.where.j.eq',
    't.c on_conflict.index_where.c', 't.l returning[0]', '=t.b values[1].b'
  ])
  const conflict = { constraint: 't_pkey', do: 'update' }
  t.strictSame(
    names({ op: 'insert', values: [{ a: 1 }], on_conflict: conflict }),
    [own, '=t.a values[0].a']
  )
  t.strictSame(
    names({ op: 'insert', values: '$params.rows' }), [own, '=t.a values', '=t.b values']
  )
  t.strictSame(
    names({ op: 'insert', values: [{ a: 1 }], returning: ['=a'] }),
    [own, 't.=a returning[0]', '=t.a values[0].a'],
    'a column can have any name'
  )
  t.strictSame(names({ op: 'delete', where: { a: { eq: 1 } }, returning: ['b'] }), [
    own, 't.a where.a', 't.b returning[0]'
  ])
  t.strictSame(names({
    op: 'update',
    key: ['a', { column: 'b', as: 'old' }],
    values: [{ a: 1, old: 1, b: 2, c: { $inc: 1 } }, { a: 2, old: 1, b: 2, c: { $inc: 3 } }],
    where: { d: { eq: 1 } }
  }), [
    own, 't.d where.d', 't.a key[0]', 't.b key[1]', '=t.b values[0].b', '=t.c values[0].c'
  ])
  t.end()
})

t.test('what is read of other rows', t => {
  const from = {
    table: 'u',
    on: { a: 'b' },
    columns: ['*', { column: 'c', as: 'x' }, { column: 'd', cast: 'text', as: 'y' }],
    where: { e: { eq: 1 } }
  }
  t.strictSame(names({
    op: 'update',
    from,
    set: { g: { $from: 'x' }, h: { $from: 'i->j' } },
    where: { k: { eq: { $from: 'y' } } }
  }), [
    own, 'u from.table', 'u.c from.columns[1]', 'u.d from.columns[2]', 'u.e from.where.e',
    't.a from.on.a', 'u.b from.on.a', '=t.g set.g', '=t.h set.h', 'u.i set.h.$from', 't.k where.k'
  ])
  const grouped = {
    table: 'u', columns: ['*', { fn: 'count', as: 'n' }], group_by: ['a'], order: [{ a: 'asc' }]
  }
  t.strictSame(names({
    op: 'insert',
    from: grouped,
    columns: { b: { $col: 'n' }, c: { $col: 'd' }, e: 1 }
  }), [
    own, 'u from.table', 'u.a from.group_by[0]', '=t.b columns.b', '=t.c columns.c',
    '=t.e columns.e', 'u.d columns.c.$col'
  ])
  t.strictSame(names({
    op: 'update', from: { param: 'rows', on: { a: 'a' } }, set: { b: { $from: 'b' } }
  }), [own, 't.a from.on.a', '=t.b set.b'])
  t.end()
})
