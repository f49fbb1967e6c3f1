/**
 * The kinds of your application and their payloads, by declaration merging:
 *
 * ```ts
 * declare module 'nestjs-pg-queue' {
 *   interface JobKinds {
 *     send_email: { userId: string };
 *   }
 * }
 * ```
 *
 * A kind that is not declared has a payload of type `unknown`.
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type
export interface JobKinds {}

/**
 * What the handlers of your kinds return, the same way: the type of `enqueueAndWait` and `waitFor`. A result is
 * stored as JSON, so declare what JSON makes of it: a Date comes back as a string.
 *
 * ```ts
 * declare module 'nestjs-pg-queue' {
 *   interface JobResults {
 *     render_pdf: { url: string };
 *   }
 * }
 * ```
 *
 * The result of a kind that is not declared is of type `unknown`.
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type
export interface JobResults {}
