import { ConsoleLogger } from '@nestjs/common';
export class StoryLogger extends ConsoleLogger {}
