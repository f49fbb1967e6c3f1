import { Module } from '@nestjs/common';
import { Users } from './users.repository.js';

@Module({ providers: [Users], exports: [Users] })
export class UsersModule {}
