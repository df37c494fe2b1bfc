package simulate

// connect connects the gateway of a region with those of the others.
func (r *run) connect(p *pool) {
	f := newForwarding(p.product)
	p.product.regions = f
	others := r.layout.others(p.index)
	f.ask = func(peer int, text string) {
		other, way := others[peer], r.layout.RTT[p.index][others[peer]]/2
		r.after(way, func() {
			answer, err := r.pools[other].product.regions.answer(text)
			if err != nil {
				r.err = err
				return
			}
			r.after(way, func() { f.hear(peer, answer) })
		})
	}
	f.forward = func(q *Request, peer int) {
		r.tallyOf(q).forwards(r.now)
		q.waited += r.now - q.came
		q.trip.way = r.layout.RTT[p.index][others[peer]] / 2
		r.after(q.trip.way, func() {
			q.lease = lease{}
			r.route(r.pools[others[peer]], q)
		})
	}
}

// cameBack notes in the region of a request's user what has come of it elsewhere, if it was forwarded.
func (r *run) cameBack(q *Request, served bool) {
	if !q.trip.away {
		return
	}
	if err := r.pools[q.Region].product.regions.ended(q, served); err != nil {
		r.err = err
	}
}
