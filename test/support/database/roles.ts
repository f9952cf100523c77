/**
 * The roles of the tests, which all servers share.
 */

/** The role a service under test logs in with (password `login`), and the roles it may take. */
export const LOGIN_ROLE = 'oneflight_login'
export const TEST_ROLES = ['oneflight_user', 'oneflight_other', 'oneflight_anon'] as const
