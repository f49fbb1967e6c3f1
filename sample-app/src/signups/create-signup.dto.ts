import { IsEmail, IsString, Length } from 'class-validator';

export class CreateSignupDto {
  @IsEmail()
  readonly email!: string;

  @IsString()
  @Length(1, 100)
  readonly name!: string;
}
