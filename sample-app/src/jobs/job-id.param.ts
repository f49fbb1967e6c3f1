import { Matches } from 'class-validator';

/** Ids are text: a bigint does not fit into a JavaScript number. */
export class JobIdParam {
  @Matches(/^[1-9]\d{0,17}$/, { message: 'id must be the id of a job' })
  readonly id!: string;
}
