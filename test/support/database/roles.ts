/**
 * The roles of the tests, which all servers share.
 */

/** The role a service under test logs in with (password `login`), and the roles it may take. */
export const LOGIN_ROLE = 'oneflight_login'
export const TEST_ROLES = ['oneflight_user', 'oneflight_other', 'oneflight_anon'] as const

/** SQL that gives a role all tables and sequences that are created in the schema public later. */
export const grantAll = (role: string): string =>
  `alter default privileges in schema public grant all on tables to ${role};
    alter default privileges in schema public grant all on sequences to ${role};`
