/**
 * Clients of one tenant that read and change all the time what belongs to others. Their policies
 * show every row if the claims do not reach a worker; see citus-bank.ts.
 */
import { token } from '../../support/environment.ts'
import { TENANTS } from './bank.ts'
import { encodeBatch, openConnection } from '../client.ts'
import { ROLE } from '../own-server.ts'

export interface Readings {
  /** Batches with status 200. */
  answered: number
  /** Rows of the tenant that were returned. */
  own: number
  /** Rows of other tenants that were returned or changed. */
  foreign: number
  /** Batches with another status. */
  refused: number
}

export interface Readers {
  readonly readings: Readings
  /** Resolves when the last batch was answered. */
  stop(): Promise<void>
}

/** Starts `clients` readers, each of another tenant. */
export function startReaders (url: string, clients: number): Readers {
  const readings: Readings = { answered: 0, own: 0, foreign: 0, refused: 0 }
  const stopped = new AbortController()
  const work = async (number: number): Promise<void> => {
    const tenant = `t${number}`
    const requests = requestsOf(tenant, `t${(number + 7) % TENANTS}`)
    const connection = await openConnection(url)
    for (let i = 0; !stopped.signal.aborted; i++) {
      const { status, text } = await connection.send(requests[i % requests.length] as Buffer)
      if (status === 200) recordRows(readings, tenant, text)
      else readings.refused++
    }
    connection.close()
  }
  const done = Promise.all(Array.from({ length: clients }, (_, number) => work(number)))
  return {
    readings,
    async stop () {
      stopped.abort()
      await done
    }
  }
}

/** What the reader sends in turn: statements of all shards, and of a shard of another tenant. */
function requestsOf (tenant: string, other: string): readonly Buffer[] {
  const authorization = `Bearer ${token({ role: ROLE, tenant })}`
  const ofOther = { tenant: { eq: other } }
  const steal = { op: 'update', table: 'accounts', set: { balance: { $inc: 1_000_000 } } }
  const batches = [
    [{ id: 's', op: 'select', table: 'accounts' }],
    [{ id: 's', op: 'select', table: 'accounts', where: ofOther }],
    [{
      id: 's',
      op: 'select',
      table: 'accounts',
      columns: ['tenant', { fn: 'sum', column: 'balance' }],
      group_by: ['tenant']
    }],
    [{ id: 'u', ...steal, where: ofOther }],
    [{ id: 'u', ...steal, where: { tenant: { neq: tenant } } }],
    [
      { id: 'e', op: 'select', table: 'entries', limit: 20 },
      { id: 'd', op: 'delete', table: 'entries', where: ofOther }
    ]
  ]
  return batches.map(batch => encodeBatch(authorization, batch))
}

function recordRows (readings: Readings, tenant: string, text: string): void {
  readings.answered++
  const { data } = JSON.parse(text) as { data: Record<string, ReadonlyArray<{ tenant: string }>> }
  for (const row of Object.values(data).flat()) {
    if (row.tenant === tenant) readings.own++
    else readings.foreign++
  }
}
