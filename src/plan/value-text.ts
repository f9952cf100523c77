/**
 * Arrays as the texts that PostgreSQL reads.
 */

/**
 * Returns the text form of a PostgreSQL array (docs: "Array Input and Output Syntax"). Only arrays
 * of the type box have another delimiter, `;`.
 */
export function arrayText (
  elements: ReadonlyArray<string | number | null>,
  delimiter = ','
): string {
  return `{${
    elements.map(element => typeof element === 'string' ? `"${escape(element)}"` : String(element))
      .join(delimiter)
  }}`
}

/** Most texts have nothing to escape; with replace, a list of half a million took 150 ms. */
function escape (text: string): string {
  return text.includes('"') || text.includes('\\') ? text.replace(/["\\]/g, '\\$&') : text
}
