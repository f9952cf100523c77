/**
 * Tests what the error of a tool recommends to a model.
 */
import t from 'tap'
import { failure, type FailureCode } from '../../../src/errors/catalogue.ts'
import { describeFailure } from '../../../src/mcp/tools.ts'

const facts = { requestId: 'r', verbose: false, hasKey: false }

function repairOf (code: FailureCode, hasKey = false): string {
  return JSON.parse(describeFailure(failure(code), { ...facts, hasKey })).error.repair
}

t.test('a call whose outcome is unknown is repeated only with its key', async t => {
  const { committed } = JSON.parse(describeFailure(failure('commit_unknown'), facts))
  t.equal(committed, 'unknown')
  t.match(repairOf('commit_unknown', true), /same idempotency_key: the change is applied once/)
  t.match(repairOf('commit_unknown'), /Read the data with another tool before/)
})

t.test('what follows from the kind of a failure', async t => {
  t.match(repairOf('overloaded'), /same arguments in a few seconds/)
  for (const code of ['overloaded', 'deadline_exceeded', 'shutting_down'] as const) {
    t.match(repairOf(code, true), /^This call changed nothing.*same idempotency_key in a few/, code)
  }
  t.match(repairOf('deadline_exceeded'), /same arguments in a few seconds/)
  t.match(repairOf('auth_required'), /do not repeat the call/)
  t.match(repairOf('role_denied'), /do not repeat the call/)
  t.match(repairOf('internal'), /Report the request_id/)
  t.match(repairOf('expectation_failed'), /Read the data, correct the arguments/)
  t.match(repairOf('too_much_work'), /Nothing was changed/)
  t.match(
    repairOf('idempotency_key_invalid', true),
    /may have been made: read the data with another tool first\. Leave idempotency_key out/
  )
})

t.test('the error is that of the HTTP API', async t => {
  const text = describeFailure(failure('overloaded', 'Busy.'), facts)
  t.match(JSON.parse(text), {
    committed: false,
    error: {
      type: 'service_error', code: 'overloaded', message: 'Busy.', request_id: 'r', retryable: true
    }
  })
})
