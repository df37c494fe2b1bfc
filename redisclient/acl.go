package redisclient

// ACLRules are the rights that a Redis user needs for this package, and no others. Create the user with
// "ACL SETUSER name on >password" followed by these rules. SELECT is needed for a database other than 0, ASKING on a
// Redis Cluster, ROLE where the name of a Redis also leads to replicas.
const ACLRules = "resetchannels resetkeys ~" + KeyPrefix + "* -@all +evalsha +script|load +ping +role +select +asking" +
	" +mget +set +getrange +setrange +strlen +hget +hmget +hscan +hset +hdel +hexists +hlen" +
	" +zadd +zrem +zcard +zscore +zrangebyscore +exists +unlink +pexpire +pttl +time"
