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
