// Package sparkplug has the server take part in Sparkplug B 3.0 as a host application: edge
// nodes that publish to its broker report for entities.
//
//	spBv1.0/{group}/NBIRTH|NDATA|NDEATH/{edge}             the entity {group}|{edge}
//	spBv1.0/{group}/DBIRTH|DDATA|DDEATH/{edge}/{device}    the entity {group}|{edge}|{device}
//	spBv1.0/{group}/NCMD|DCMD/{edge}[/{device}]            to them, from who may write the entity
//	spBv1.0/STATE/{host}                                   host applications; this one is greenroom
//
// Metrics are readings under their names, also those that come with an alias alone. Whether
// an edge node or device is online is in the section reported, as sparkplug.online. An edge
// node that the server does not know, or of which a message is missing, is asked for its birth
// certificates.
//
// Control metrics (Node Control/…, Device Control/…, bdSeq) are no readings, and neither are
// metrics without a value and those of the types DataSet and Template, which are counted as
// refused. Historical values come into the history by their time; the latest value is the one
// with the newest time, as everywhere.
//
// https://sparkplug.eclipse.org/specification/version/3.0/documents/sparkplug-specification-3.0.0.pdf
package sparkplug
