/** Of this package, as workers tell it. A test holds it against package.json. */
export const VERSION = '0.1.0';
