import { Body, ConflictException, Controller, Post } from '@nestjs/common';
import { QueueService } from 'nestjs-pg-queue';
import { Users } from '../users/users.repository.js';
import { CreateSignupDto } from './create-signup.dto.js';

@Controller('signups')
export class SignupsController {
  constructor(
    private readonly queue: QueueService,
    private readonly users: Users,
  ) {}

  /** The user and the welcome e-mail commit together, or neither exists. */
  @Post()
  create(@Body() dto: CreateSignupDto): Promise<{ userId: string; jobId: string }> {
    return this.queue.transaction(async (tx) => {
      const user = await this.users.insert(tx, dto.email, dto.name);
      if (!user) throw new ConflictException('This e-mail address has signed up already');
      const { id } = await this.queue.enqueue('send-email', { userId: user.id }, { tx });
      return { userId: user.id, jobId: id };
    });
  }
}
