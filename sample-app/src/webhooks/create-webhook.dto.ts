import { IsObject, IsString, Length } from 'class-validator';

export class CreateWebhookDto {
  @IsString()
  @Length(1, 100)
  readonly event!: string;

  @IsObject()
  readonly data!: Record<string, unknown>;
}
