import { Matches } from 'class-validator';

export class CreateCrmSyncDto {
  @Matches(/^[1-9]\d{0,17}$/, { message: 'userId must be the id of a user, as text' })
  readonly userId!: string;
}
