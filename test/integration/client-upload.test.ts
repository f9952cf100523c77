/**
 * Tests uploads of the client: rows are sent while they are read, and again only if they can be
 * read again.
 */
import t from 'tap'
import type { Client } from '../../client/src/index.ts'
import { failure, useClient } from '../support/client.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const row = {
  type: 'object',
  properties: { id: { type: 'integer' }, note: { type: 'string' } },
  required: ['id'],
  additionalProperties: false
}
const params = {
  type: 'object',
  properties: {
    rows: { type: 'array', items: row },
    source: { type: 'string', default: 'none' },
    count: { type: 'integer', default: 0 }
  },
  required: ['rows']
}
const columns = { id: { $col: 'id' }, note: '$params.source', count: '$params.count' }
const service = await useService(t, {
  schema: 'create table notes (id bigint primary key, note text, count bigint)',
  keys: true,
  batches: {
    load: {
      params,
      operations: [op.insert('in', 'notes', '$params.rows', { returning: [] })]
    },
    from: {
      params,
      operations: [
        { id: 'in', op: 'insert', table: 'notes', from: { param: 'rows' }, columns, returning: [] }
      ]
    }
  },
  env: { MAX_UPLOAD_ROWS: '100000' }
})
const { sql } = service.database

t.beforeEach(async () => {
  await sql`truncate notes`
})

interface Fetching {
  readonly client: Client<unknown>
  readonly asked: readonly string[]
}

/** A client whose first `lost` responses do not arrive. `query`: that of its URL. */
function useUploads ({ lost = 0, query = '' } = {}): Fetching {
  const asked: string[] = []
  const client = useClient<unknown>({ url: `${service.url}${query}` }, {
    async fetch (url, init) {
      const response = await fetch(url, init)
      if (asked.push(url) <= lost) throw new TypeError('the response is lost')
      return response
    }
  })
  return { client, asked }
}

async function * generate (count: number): AsyncGenerator<object> {
  for (let id = 0; id < count; id++) yield { id, note: 'é'.repeat(5) }
}

t.test('rows come from any iterable', async t => {
  const { client } = useUploads()
  for (const rows of [[{ id: 1n }, { id: 9007199254740993n }], generate(2)]) {
    t.match(await client.upload('load', rows, { return: 'minimal' }), {
      data: { in: 2 }, attempts: 1, replayed: false
    })
    await sql`truncate notes`
  }
  t.match(await client.upload('load', new Set()), { data: { in: [] } }, 'no rows')
  t.match(await client.upload('load', generate(20_000)), { data: { in: [] } })
  t.match(await sql`select count(*)::int from notes`, [{ count: 20_000 }])
})

t.test('the other parameters are in the query', async t => {
  const { client, asked } = useUploads()
  await client.upload('from', [{ id: 1 }], { params: { source: 'a&b=ü', count: 2n ** 60n } })
  t.match(await sql`select note, count from notes`, [{ note: 'a&b=ü', count: String(2n ** 60n) }])
  t.match(asked, [/\/batches\/from\?source=a%26b%3D%C3%BC&count=1152921504606846976$/])
  const other = useUploads({ query: '?source=x#part' })
  await other.client.upload('from', [{ id: 2 }], { params: { count: 1 } })
  t.match(other.asked, [/\/batches\/from\?source=x&count=1#part$/])
})

t.test('an upload is retried if its rows can be read again', async t => {
  for (const rows of [[{ id: 1 }], () => generate(3)]) {
    const { client, asked } = useUploads({ lost: 1 })
    t.match(await client.upload('load', rows), { attempts: 2, replayed: true })
    t.equal(asked.length, 2)
    await sql`truncate notes`
  }
  const { client, asked } = useUploads({ lost: 1 })
  t.match(await failure(client.upload('load', generate(3))), {
    code: 'network_error', committed: 'unknown', attempts: 1
  })
  t.equal(asked.length, 1)
})

t.test('an upload that ends early applies nothing', async t => {
  const { client } = useUploads()
  const faulty = async function * (): AsyncGenerator<object> {
    yield * generate(5000)
    yield { id: 'x' }
    yield * generate(50_000)
  }
  t.match(await failure(client.upload('load', faulty())), {
    code: 'params_invalid', line: 5001, committed: false, errors: [{ path: ['rows', 5000, 'id'] }]
  })
  const broken = async function * (): AsyncGenerator<object> {
    yield * generate(5000)
    throw new RangeError('the file ends early')
  }
  await t.rejects(client.upload('load', broken()), new RangeError('the file ends early'))
  t.match(await failure(client.upload('load', [{ id: 1 }, { id: Number.NaN }])), {
    code: 'batch_invalid', committed: false
  })
  t.match(await sql`select count(*)::int from notes`, [{ count: 0 }])
})

t.test('an aborted upload closes the source of its rows', async t => {
  const { client } = useUploads()
  const controller = new AbortController()
  let [isClosed, isWhole] = [false, false]
  const rows = async function * (): AsyncGenerator<object> {
    try {
      yield * generate(5000)
      controller.abort()
      yield * generate(1_000_000)
      isWhole = true
    } finally {
      isClosed = true
    }
  }
  t.match(await failure(client.upload('load', rows(), { signal: controller.signal })), {
    code: 'aborted'
  })
  await until(() => isClosed)
  t.notOk(isWhole)
  t.match(await sql`select count(*)::int from notes`, [{ count: 0 }])
})
