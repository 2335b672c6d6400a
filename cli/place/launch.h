/* What mpirun is told so that ranks are where a placement has them. Ranks are numbered through the domains. */
#ifndef COMET_CLI_PLACE_LAUNCH_H
#define COMET_CLI_PLACE_LAUNCH_H

#include "place/placement.h"

/* "a1:0 x2, a1:1 x2": node, domain, ranks. malloc'd, as the other texts; NULL: no memory. */
char *launch_where(const machine *m, const placement *p);
/* Lines of a rankfile of Open MPI: "rank 0=a1 slot=0-7". */
char *launch_rankfile(const machine *m, const job *j, const placement *p);
/* Lines of a host file of MPICH: "a1:2 binding=user:0+1,2+3". */
char *launch_hostfile(const machine *m, const job *j, const placement *p);

#endif
