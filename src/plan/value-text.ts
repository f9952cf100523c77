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
  // Most have nothing to escape; element by element, half a million would take 100 ms more.
  const json = JSON.stringify(elements)
  if (delimiter === ',' && !json.includes('\\')) return `{${json.slice(1, -1)}}`
  return `{${
    elements.map(element => typeof element === 'string'
      ? `"${element.replace(/["\\]/g, '\\$&')}"`
      : String(element)).join(delimiter)
  }}`
}
