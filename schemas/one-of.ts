/**
 * The schema of a word of a list.
 */
import { Type, type SchemaOptions, type TLiteral, type TUnion } from '@sinclair/typebox'

export function oneOf<const Word extends string> (
  words: readonly Word[],
  options?: SchemaOptions
): TUnion<Array<TLiteral<Word>>> {
  return Type.Union(words.map((word): TLiteral<Word> => Type.Literal(word)), options)
}
