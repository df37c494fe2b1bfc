package redisclient

// ACLRules are what a Redis user needs for this package, and nothing beyond: ACL SETUSER name on >password, and these
// rules behind it. select is needed for another database than 0, and asking on a Redis Cluster.
const ACLRules = "resetchannels resetkeys ~" + KeyPrefix + "* -@all +evalsha +script|load +ping +select +asking" +
	" +mget +set +getrange +setrange +strlen +hget +hmget +hscan +hset +hdel +hexists +hlen" +
	" +zadd +zrem +zcard +zscore +zrangebyscore +exists +unlink +pexpire +pttl +time"
