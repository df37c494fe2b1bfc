package simulate

// connect connects a gateway with those of other regions.
func (r *run) connect(f *front) {
	away := newForwarding(f.product)
	f.product.regions = away
	others, rtts := r.layout.others(f.region), r.layout.RTT[f.region]
	away.ask = func(peer int, text string) {
		way := rtts[others[peer]] / 2
		r.after(way, func() {
			answer, err := r.frontOf(others[peer]).product.regions.answer(text)
			if err != nil {
				r.err = err
				return
			}
			r.after(way, func() { away.hear(peer, answer) })
		})
	}
	away.forward = func(q *Request, peer int) {
		r.tallyOf(q).forwards(r.now)
		q.waited += r.now - q.came
		q.trip.from, q.trip.way = f.index, rtts[others[peer]]/2
		r.after(q.trip.way, func() {
			q.lease = lease{}
			r.route(r.frontOf(others[peer]), q)
		})
	}
}

// cameBack notes where a request was forwarded, if it was, what has come of it elsewhere.
func (r *run) cameBack(q *Request, served bool) {
	if !q.trip.away {
		return
	}
	if err := r.fronts[q.trip.from].product.regions.ended(q, served); err != nil {
		r.err = err
	}
}
