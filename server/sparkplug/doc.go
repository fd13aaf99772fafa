// Package sparkplug implements a host application of Sparkplug B 3.0: edge nodes that publish to
// the broker report for entities.
//
//	spBv1.0/{group}/NBIRTH|NDATA|NDEATH/{edge}             the entity {group}|{edge}
//	spBv1.0/{group}/DBIRTH|DDATA|DDEATH/{edge}/{device}    the entity {group}|{edge}|{device}
//	spBv1.0/{group}/NCMD|DCMD/{edge}[/{device}]            to them, from those who may write the entity
//	spBv1.0/STATE/{host}                                   host applications; this one is greenroom
//
// Metrics are readings under their names, including those sent with only an alias. The reported
// attribute sparkplug.online says whether an edge node or device is online. The server asks an edge
// node for its birth certificates if it does not know the node, or if a message is missing.
//
// Control metrics (Node Control/…, Device Control/…, bdSeq) are not readings. Neither are metrics
// without a value, or those of the types DataSet and Template, which are counted as refused.
// Historical values enter the history by their time; the latest value is the one with the newest
// time, as everywhere.
//
// https://sparkplug.eclipse.org/specification/version/3.0/documents/sparkplug-specification-3.0.0.pdf
package sparkplug
