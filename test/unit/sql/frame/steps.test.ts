/**
 * Tests the comment of SQL_COMMENTS=on. words-on-the-wire.test.ts has the statements that get it.
 */
import t from 'tap'
import { commentOn } from '../../../../src/sql/frame/steps.ts'

const trace = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  flags: '01'
}

t.test('the comment has the format of sqlcommenter and escapes every id', async t => {
  t.equal(commentOn('a', undefined), " /*request_id='a'*/")
  t.equal(
    commentOn('a/b:c+d=e@f', trace),
    " /*request_id='a%2Fb%3Ac%2Bd%3De%40f'," +
      `traceparent='00-${trace.traceId}-${trace.spanId}-${trace.flags}'*/`
  )
  // Request ids cannot contain these characters. They are escaped as a second defence.
  t.equal(
    commentOn("*/ ' -- \n é", undefined),
    " /*request_id='%2A%2F%20%27%20--%20%0A%20%C3%A9'*/"
  )
})
