// The words of LogQL that are suggested.
export const STAGES = "decolorize drop json keep label_format line_format logfmt pattern regexp unpack unwrap".split(" ");
export const LOG_AGGREGATIONS = "approx_topk avg bottomk count max min sort sort_desc stddev stdvar sum topk".split(" ");
export const LOG_FUNCTIONS = `absent_over_time avg_over_time bytes_over_time bytes_rate count_over_time first_over_time label_replace
  last_over_time max_over_time min_over_time quantile_over_time rate rate_counter stddev_over_time stdvar_over_time sum_over_time
  vector`.split(/\s+/);
