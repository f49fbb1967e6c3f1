/** What to type into a second terminal. */
export function describeRoutes(url: string): string {
  const base = url.replace('[::1]', 'localhost');
  return `
Try, in a second terminal:

${post(`${base}/signups`, { email: 'ada@example.com', name: 'Ada' })}
${post(`${base}/webhooks`, { event: 'order.paid', data: { orderId: 42 } })}
curl -X POST ${base}/exports
${post(`${base}/crm-sync`, { userId: '1' })}
curl ${base}/jobs        # how many jobs are pending or failed
curl ${base}/jobs/1      # one job, by the jobId that the POST answered
curl ${base}/exports/3   # an export, and its file once it is done

`;
}

function post(url: string, body: object): string {
  return `curl ${url} -H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
}
