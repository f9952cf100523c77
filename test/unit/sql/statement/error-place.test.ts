/**
 * Tests that the place of an error is found in one pass over the statement, whatever constants and
 * names the request contains.
 */
import t from 'tap'
import { columnBeforeError } from '../../../../src/sql/statement/error-place.ts'
import { growthOf } from '../../../support/growth.ts'

/** An error at the end of a statement, or of the part before a table. */
const at = (before: string, after = ''): { position: string, query: string } =>
  ({ position: String([...before].length + 1), query: before + after })

t.test('names are found, and constants are not', async t => {
  t.equal(columnBeforeError(at('select 1 from "s"."t" as t where t."a" = ')), 'a')
  t.equal(columnBeforeError(at('select 1 from "s"."t" as t where t."a""b" = ')), 'a"b')
  t.equal(columnBeforeError(at('where ("😀" = ')), '😀')
  t.equal(columnBeforeError(at('where "a" = E\'it\'\'s (\\\\"x"\' and ')), 'a')
  t.equal(columnBeforeError(at('where "a" = E\'\\\' and ("b"\' ')), 'a')
  t.equal(columnBeforeError(at('where "a" = E\'(')), 'a')
  t.equal(columnBeforeError(at('where "a\\" and "\\""\'b" = ')), '\\"\'b')
  t.equal(columnBeforeError(at('where "a" and "b')), 'a')
  t.equal(columnBeforeError(at('from "s"."t" as t ')), undefined)
  const query = 'select $1, t."a" = $10, t."b" = $1'
  const where = (text: string) => columnBeforeError({ query, where: text })
  t.equal(where("unnamed portal parameter $10 = '$1'"), 'a')
  t.equal(where('unnamed portal parameter $2'), 'b', 'without such a parameter')
  t.equal(where('function f\nstatement $1'), undefined)
  t.equal(where('JSON data, line 1: $1 x...\nunnamed portal parameter $10'), 'a')
  t.equal(where('JSON data, line 1: x\nfunction f\nstatement $1'), undefined)
})

t.test('the time grows in proportion to the statement', async t => {
  const parts = ['"', "'", '("', 't."a".', '("""', '\\\\', 'a', "''", '\\', ' ', '\n', '$1']
  for (const part of parts) {
    const check = (
      place: string,
      find: typeof columnBeforeError,
      create: (text: string) => Parameters<typeof columnBeforeError>[0]
    ): void => {
      const growth = growthOf(3000, size => {
        const error = create(part.repeat(size))
        return () => find(error)
      })
      t.ok(growth < 12, `${place}, ${part}: ${growth.toFixed(1)}`)
    }
    check('before', columnBeforeError, text => at(text))
    check('constant', columnBeforeError, text => at(`where "a" = E'${text}`))
    check('context', columnBeforeError, text => ({ where: `${text}\n`, query: '' }))
  }
})
