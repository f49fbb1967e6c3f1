import { Injectable } from '@nestjs/common';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { JobSchedule } from '../../lib/decorators/job-schedule.decorator.js';
import { handlersOf } from './discovery.support.js';

describe('@JobSchedule', () => {
  it('belongs to the kind of its method, above or below @JobHandler, several times', async () => {
    @Injectable()
    class Reports {
      @JobSchedule('@daily')
      @JobHandler('report')
      @JobSchedule({ every: '1h' }, { name: 'hourly' })
      send() {}

      @JobHandler('other')
      other() {}
    }
    const table = await handlersOf({ providers: [Reports] });
    expect(table.get('report')?.schedules).toEqual([
      { times: { every: '1h' }, options: { name: 'hourly' } },
      { times: { cron: '@daily' }, options: {} },
    ]);
    expect(table.get('other')?.schedules).toBeUndefined();
  });

  it('says which kind, where the method handles several', async () => {
    @Injectable()
    class Reports {
      @JobHandler('day')
      @JobHandler('week')
      @JobSchedule('@weekly', { kind: 'week' })
      send() {}
    }
    const table = await handlersOf({ providers: [Reports] });
    expect(table.get('week')?.schedules).toMatchObject([{ times: { cron: '@weekly' } }]);
    expect(table.get('day')?.schedules).toBeUndefined();
  });

  it('is an error without @JobHandler', async () => {
    @Injectable()
    class Reports {
      @JobSchedule('@daily')
      send() {}
    }
    await expect(handlersOf({ providers: [Reports] })).rejects.toMatchObject({
      code: 'INVALID_HANDLER',
      message:
        '@JobSchedule is on Reports.send in AppModule, which has no @JobHandler. Add one: a schedule makes jobs of its kind.',
    });
  });

  it.each([
    [undefined, "which handles several kinds. Say which one by the option `kind`: 'b', 'a'."],
    ['c', "with the kind 'c', which that method does not handle. It handles 'b', 'a'."],
  ])('is an error with the kind %s on a method that handles others', async (kind, message) => {
    @Injectable()
    class Reports {
      @JobHandler('a')
      @JobHandler('b')
      @JobSchedule('@daily', { kind })
      send() {}
    }
    await expect(handlersOf({ providers: [Reports] })).rejects.toThrow(message);
  });

  it('is an error on a static method', () => {
    expect(() => {
      class Reports {
        @JobSchedule('@daily')
        static send() {}
      }
      return Reports;
    }).toThrow('@JobSchedule is on Reports.send, a static member that no provider has.');
  });
});
